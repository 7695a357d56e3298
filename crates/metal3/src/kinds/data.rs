//! `Metal3Data`: the data of one machine.
