//! The settings and the net that must be equal at all ranks: as ranks exchange them, and as errors
//! show them.

use std::fmt;

/// The settings that must be equal at all ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedSettings {
    /// Whether shared memory is used.
    pub shm: bool,
    /// Whether verbs may be used.
    pub verbs: bool,
    /// Whether libfabric may be used.
    pub ofi: bool,
    /// The value of `TRANSOM_ATOMICS`: `auto`, `cpu` or `nic`.
    pub atomics: &'static str,
    /// Whether cross-memory attach may be used.
    pub cma: bool,
    /// Whether conflicting accesses are reported.
    pub check: bool,
}

impl SharedSettings {
    /// The values of `TRANSOM_ATOMICS`.
    pub(crate) const ATOMICS: [&'static str; 3] = ["auto", "cpu", "nic"];

    /// The settings as a rank sends them to the others.
    pub(crate) fn encode(&self) -> [u8; 6] {
        let atomics = (0..).zip(Self::ATOMICS).find_map(|(number, word)| (word == self.atomics).then_some(number));
        [
            self.shm.into(),
            self.verbs.into(),
            self.ofi.into(),
            atomics.unwrap_or_default(),
            self.cma.into(),
            self.check.into(),
        ]
    }

    /// The settings that a rank of this version sent; `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SharedSettings> {
        let &[shm, verbs, ofi, atomics, cma, check] = bytes else { return None };
        let [shm, verbs, ofi, cma, check] = [shm, verbs, ofi, cma, check].map(|flag| flag == 1);
        Some(SharedSettings { shm, verbs, ofi, atomics: Self::ATOMICS.get(usize::from(atomics))?, cma, check })
    }
}

impl fmt::Display for SharedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedSettings { shm, verbs, ofi, atomics, cma, check } = self;
        write!(f, "transports shm={shm} verbs={verbs} ofi={ofi}, atomics {atomics}, cma {cma}, check {check}")
    }
}

/// A net, with the choices on which all ranks must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetName {
    /// `verbs`, `libfabric` or `sim`.
    pub transport: String,
    /// The provider of libfabric.
    pub provider: Option<String>,
    /// The variables of the provider that must be equal, with the values that are set.
    pub variables: Vec<(String, String)>,
}

impl NetName {
    /// A net without choices.
    pub(crate) fn of(transport: &str) -> NetName {
        NetName { transport: transport.to_owned(), provider: None, variables: Vec::new() }
    }

    /// The name as a rank sends it to the others. No part has a byte of 0, since a variable can't
    /// contain one.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let variables = self.variables.iter().map(|(name, value)| format!("\0{name}={value}"));
        let provider = self.provider.as_deref().unwrap_or_default();
        let text: String = [format!("{}\0{provider}", self.transport)].into_iter().chain(variables).collect();
        text.into_bytes()
    }

    /// The name that a rank sent.
    pub(crate) fn decode(bytes: &[u8]) -> NetName {
        let text = String::from_utf8_lossy(bytes);
        let mut parts = text.split('\0');
        let mut name = NetName::of(parts.next().unwrap_or_default());
        name.provider = parts.next().filter(|provider| !provider.is_empty()).map(str::to_owned);
        let variable = |part: &str| part.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        name.variables = parts.filter_map(variable).collect();
        name
    }
}

impl fmt::Display for NetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.transport)?;
        self.provider.iter().try_for_each(|provider| write!(f, " {provider}"))?;
        self.variables.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_round_trip() {
        for atomics in SharedSettings::ATOMICS {
            let settings = SharedSettings { shm: true, verbs: false, ofi: true, atomics, cma: false, check: true };
            assert_eq!(SharedSettings::decode(&settings.encode()), Some(settings));
        }
        assert_eq!(SharedSettings::decode(&[1, 1, 1, 3, 1, 0]), None, "no such value of TRANSOM_ATOMICS");
        assert_eq!(SharedSettings::decode(&[1; 4]), None);
    }

    #[test]
    fn names_of_nets_round_trip() {
        let variables = vec![("FI_CXI_OPTIMIZED_MRS".to_owned(), "a=b c".to_owned())];
        let cxi = NetName { provider: Some("cxi".to_owned()), variables, ..NetName::of("libfabric") };
        for (name, text) in [(NetName::of("verbs"), "verbs"), (cxi, "libfabric cxi FI_CXI_OPTIMIZED_MRS=a=b c")] {
            assert_eq!(NetName::decode(&name.encode()), name);
            assert_eq!(name.to_string(), text);
        }
    }
}
