//! Times as they are written in objects.
