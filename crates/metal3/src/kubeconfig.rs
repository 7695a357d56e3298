//! The kubeconfig in a Secret that `identityRef` names.
