//! What the operator shows. The test reads the log of the whole process, so it has one of its own.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
#![allow(dead_code, reason = "it uses a part of the scene")]

#[path = "../resources/recording.rs"]
mod recording;
#[path = "../resources/scene.rs"]
mod scene;
#[path = "../world/world.rs"]
mod world;

mod secrets;
