//! Address pools: their custom resources, and which address a claim gets.
