//! `Metal3Remediation` and its template.
