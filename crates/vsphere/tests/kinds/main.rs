//! What users write, as a server takes it: definitions, rights and policies.

mod definitions;
mod explain;
mod policies;
mod rights;
mod scene;
