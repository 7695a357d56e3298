//! Several replicas over one etcd v3 cluster.
