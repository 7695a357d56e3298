//! Webhooks and policies that admit requests, without I/O: what is wrong with their
//! configuration, which requests they match, what they are asked, what their answers mean.
