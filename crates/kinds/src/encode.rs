//! Objects to text, in the order and with the omissions of Go.
