//! Conversion of the kinds between `v1beta1` and `v1beta2`, without loss.
