//! Objects from and to protobuf, by the numbers of their types.
