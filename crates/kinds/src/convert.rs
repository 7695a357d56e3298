//! Between versions of the same objects.
