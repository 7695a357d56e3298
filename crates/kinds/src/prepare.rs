//! What a write may touch, and what the server fills in.
