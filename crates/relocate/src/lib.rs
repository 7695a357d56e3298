//! Clusters of Cluster API, moved from one API server to another.
