//! Schema compiler, alias codebook, hashes and byte-exact prompt text for typed decisions.
#![forbid(unsafe_code)]
#![deny(missing_docs)]
