//! The LogGP model of a net (Alexandrov, Ionescu, Schauser and Scheiman, 1995): its parameters, and
//! the times of the shapes in which remote operations follow each other.

use super::counts::Shape;

/// Bytes of a signal.
const SIGNAL: f64 = 8.0;

/// All in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(crate) struct LogGp {
    /// From the first byte's departure to its arrival.
    #[serde(rename = "L")]
    pub(crate) latency: f64,
    /// Time of a processor to send or to receive a message.
    #[serde(rename = "o")]
    pub(crate) overhead: f64,
    /// Least time between two messages of a rank.
    #[serde(rename = "g")]
    pub(crate) gap: f64,
    /// Time for each further byte of a message.
    #[serde(rename = "G")]
    pub(crate) per_byte: f64,
}

impl LogGp {
    /// `L,o,g,G`, of which G is in nanoseconds.
    pub(crate) fn parse(text: &str) -> Result<LogGp, String> {
        let words: Vec<f64> =
            text.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|error| format!("{text:?}: {error}"))?;
        match words[..] {
            [latency, overhead, gap, per_byte] if words.iter().all(|word| *word >= 0.0 && word.is_finite()) => {
                Ok(LogGp { latency, overhead, gap, per_byte: per_byte / 1000.0 })
            }
            _ => Err("the value must be L,o,g,G: three times in us, and ns for each byte, none below 0".into()),
        }
    }

    /// The time from a message's sending to its arrival at a processor.
    fn message(&self, bytes: f64) -> f64 {
        self.latency + 2.0 * self.overhead + (bytes - 1.0).max(0.0) * self.per_byte
    }

    /// A put or get and its completion: the device of the target answers.
    pub(crate) fn put(&self, bytes: f64) -> f64 {
        self.message(bytes) + self.latency
    }

    /// A call's time where no other rank keeps it waiting.
    pub(crate) fn time(&self, shape: Shape) -> f64 {
        #[allow(clippy::cast_precision_loss)] // counts are small
        match shape {
            Shape::Rounds(rounds) => rounds as f64 * self.message(SIGNAL),
            Shape::Burst(0) => 0.0,
            Shape::Burst(signals) => (signals - 1) as f64 * self.gap.max(self.overhead) + self.message(SIGNAL),
            Shape::RoundTrips(atomics) => atomics as f64 * self.put(SIGNAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_follow_the_shapes() {
        let net = LogGp::parse("2,0.5,1,100").expect("parameters");
        let message = 2.0 + 1.0 + 0.7;
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(net.time(Shape::Rounds(3)), 3.0 * message);
        near(net.time(Shape::Burst(0)), 0.0);
        near(net.time(Shape::Burst(4)), 3.0 + message);
        near(net.time(Shape::RoundTrips(2)), 2.0 * (message + 2.0));
        near(net.put(1.0), 5.0);
        for wrong in ["", "1,2,3", "1,2,3,4,5", "1,2,x,4", "-1,2,3,4", "nan,1,1,1"] {
            assert!(LogGp::parse(wrong).is_err(), "{wrong}");
        }
    }
}
