//! What is served, told to clients.
