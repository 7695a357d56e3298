//! `Metal3Machine` and its template.
