//! Pure: the events of one episode in one sentence; the parts stay below it.

use std::time::Duration;

use super::{
    event::{Event, Severity},
    happening::{Before, Ended, Happening},
    sentence::sentence,
};

/// Events of one episode this close to its first one are told together.
pub const WINDOW: Duration = Duration::from_secs(10);

/// One sentence, and what it stands for.
#[derive(Clone, Debug)]
pub struct Folded<'a> {
    /// The sentence.
    pub text: String,
    /// The worst of its parts.
    pub severity: Severity,
    /// What it stands for; one event stands for itself.
    pub parts: Vec<&'a Event>,
}

/// Folds events in order of time.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Folded<'a>> {
    let mut groups: Vec<Vec<&Event>> = Vec::new();
    for event in events {
        let joins = |group: &&mut Vec<&Event>| {
            group[0].episode == event.episode && u128::from(event.at_ms.abs_diff(group[0].at_ms)) <= WINDOW.as_millis()
        };
        match groups.last_mut().filter(joins) {
            Some(group) => group.push(event),
            None => groups.push(vec![event]),
        }
    }
    groups.into_iter().map(told).collect()
}

fn told(parts: Vec<&Event>) -> Folded<'_> {
    let severity = parts.iter().map(|e| e.severity).max().unwrap_or(Severity::Info);
    let text = match parts.as_slice() {
        [one] => one.text.clone(),
        // What is critical is told as it is, never inside a sum.
        _ if severity == Severity::Critical => with_others(&parts, severity),
        _ => rebalance(&parts).unwrap_or_else(|| with_others(&parts, severity)),
    };
    Folded { text, severity, parts }
}

fn with_others(parts: &[&Event], severity: Severity) -> String {
    let worst = parts.iter().find(|e| e.severity == severity).map_or("", |e| e.text.as_str());
    match parts.len() - 1 {
        1 => format!("{worst} (And 1 more.)"),
        others => format!("{worst} (And {others} more.)"),
    }
}

/// One sentence for partitions that changed hands; `None` if none did.
fn rebalance(parts: &[&Event]) -> Option<String> {
    let mut partitions = Vec::new();
    let mut took_over = Vec::new();
    let mut left = Vec::new();
    for part in parts {
        match &part.happening {
            Happening::Acquired { worker, partitions: p, before: Before::Handed { from, .. }, .. }
                if from != worker =>
            {
                partitions.extend(p);
                took_over.push(worker.clone());
            }
            Happening::WorkerStopped { worker, ended: Ended::Clean | Ended::Unsaid } => left.push(worker.clone()),
            _ => {}
        }
    }
    partitions.sort_unstable();
    partitions.dedup();
    took_over.sort_unstable();
    took_over.dedup();
    if partitions.is_empty() {
        return None;
    }
    let (first, last) = (parts.iter().map(|e| e.at_ms).min()?, parts.iter().map(|e| e.at_ms).max()?);
    let took = Duration::from_millis(last.abs_diff(first));
    let left = if left.len() == 1 { left.pop() } else { None };
    Some(sentence(first, &Happening::Rebalanced { partitions, took, left, took_over }))
}

#[cfg(test)]
mod tests;
