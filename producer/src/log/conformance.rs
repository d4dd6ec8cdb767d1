//! What every log adapter must do.
