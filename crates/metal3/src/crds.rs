//! The CustomResourceDefinitions. They are data, in `data/crds`; schemas that several of them share
//! are in `data/parts`.
