//! What only the embedded group promises.
