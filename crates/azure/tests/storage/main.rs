//! Storage migration against an API server, with a look into its store.

mod migration;
mod resumption;
mod scene;
mod tenants;
mod trim;
