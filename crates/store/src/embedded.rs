//! The default: one folder on one machine, nothing else to install.
