//! Hints of windows (MPI-4.1 §12.2.7, `MPI_Info`): promises and preferences of a program, as text
//! from users and as decisions for the window. Unknown keys are ignored, as MPI requires; a known
//! key with an illegal value is an error.

use crate::environment::Atomics;
use crate::error::{ArgumentError, Class, Error, Result, SettingError};
use crate::flavor::Flavor;

/// The hints of a window, as keys with values (`MPI_Info`, MPI-4.1 §12.2.7).
/// [`book::windows`](crate::book::windows#hints) lists the keys and their effects.
///
/// ```
/// let info = transom::Info::new().with("no_locks", "true").with("accumulate_ordering", "none");
/// assert_eq!(info.get("no_locks"), Some("true"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<(String, String)>,
    forgiving: bool,
}

/// The memory model of a window (`MPI_WIN_MODEL`, MPI-4.1 §12.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// One copy: this process eventually loads the values that other ranks put (`MPI_WIN_UNIFIED`).
    Unified,
    /// A public and a private copy, which only synchronization calls make equal
    /// (`MPI_WIN_SEPARATE`). Selected by `transom_model=separate`: a program that lacks a
    /// synchronization call then reads stale data on every machine.
    Separate,
}

impl Info {
    /// No keys.
    pub fn new() -> Info {
        Info::default()
    }

    /// Sets the value of a key, and replaces an earlier value. Keys that the library does not know
    /// have no effect. An illegal value of a known key is an error of the call that takes the info
    /// (`InfoValue`).
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<String>) -> Info {
        let (key, value) = (key.into(), value.into());
        match self.pairs.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.pairs.push((key, value)),
        }
        self
    }

    /// For windows of programs that may break the promises of their hints, as some MPI programs do:
    /// the window relies on no hint.
    ///
    /// - An illegal value is ignored, and locks work in spite of `no_locks`.
    /// - Entries of a target that overlap are written or combined one after another.
    /// - Request-based operations are performed in every access epoch, with one warning.
    /// - A fence with NOPRECEDE completes operations, with one warning.
    /// - If a hint differs among the ranks of a [`RawWindow`](crate::RawWindow), the value that is
    ///   correct for all ranks is in force, and a warning reports it.
    #[must_use]
    pub fn forgiving(mut self) -> Info {
        self.forgiving = true;
        self
    }

    pub(crate) fn is_forgiving(&self) -> bool {
        self.forgiving
    }

    /// The hints with legal values, and the error of the first of the others.
    pub(crate) fn usable(&self, fits: impl Fn(&Info) -> Result<()>) -> (Info, Option<Error>) {
        let (mut usable, mut wrong) = (Info { pairs: Vec::new(), forgiving: self.forgiving }, None);
        for (key, value) in self.iter() {
            match fits(&Info::new().with(key, value)) {
                Ok(()) => usable = usable.with(key, value),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        (usable, wrong)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// All keys with their values, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// The hints in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hints {
    no_locks: bool,
    /// For `rar`, `raw`, `war` and `waw`.
    ordering: [bool; 4],
    same_op: bool,
    same_size: bool,
    same_disp_unit: bool,
    pub(crate) noncontig: bool,
    /// In bytes; 0 leaves it to the library.
    granularity: u64,
    pub(crate) alignment: usize,
    /// If the program requests huge pages: whether the kernel provides them.
    pub(crate) huge_pages: Option<bool>,
    pub(crate) model: Model,
    /// `None`: the job's setting.
    pub(crate) atomics: Option<Atomics>,
    /// How counters of notified operations are incremented.
    pub(crate) notify: Notify,
    /// The program's promises about its counters of notified operations: the largest number at a
    /// rank, and whether all ranks have equally many. Kept for `in_force`; nothing relies on it.
    most_notices: Option<u64>,
    same_notices: Option<bool>,
    /// Whether the program may break its promises.
    forgiving: bool,
}

/// What increments the counters of a window that a rank does not map, on the origin's behalf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Notify {
    /// The target's CPU where a put can carry the notice, else the device if it performs the job's
    /// atomics, else the target's CPU by messages.
    #[default]
    Auto,
    /// The target's CPU, which takes part.
    Cpu,
    /// The device, if it has atomics: the target's CPU takes no part.
    Device,
}

/// Bytes of a huge page where pages have 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

const ORDERINGS: [&str; 4] = ["rar", "raw", "war", "waw"];

impl Default for Hints {
    fn default() -> Self {
        Hints {
            no_locks: false,
            ordering: [true; 4],
            same_op: false,
            same_size: false,
            same_disp_unit: false,
            noncontig: false,
            granularity: 0,
            alignment: 1,
            huge_pages: None,
            model: Model::Unified,
            atomics: None,
            notify: Notify::Auto,
            most_notices: None,
            same_notices: None,
            forgiving: false,
        }
    }
}

impl Hints {
    /// The hints of a window that is created with `info`.
    pub(crate) fn at_creation(info: &Info, flavor: Flavor) -> Result<Hints> {
        let mut hints = Hints { forgiving: info.is_forgiving(), ..Hints::default() };
        hints.update(info)?;
        for (key, value) in info.iter() {
            match key {
                "alloc_shared_noncontig" => hints.noncontig = switch(key, value)?,
                "mpi_accumulate_granularity" => hints.granularity = number(key, value)?,
                // The first name is the standard's.
                "mpi_minimum_memory_alignment" | "mpi_minimum_alignment" => {
                    let alignment = number(key, value)?;
                    let fits = alignment.is_power_of_two() && alignment <= 1 << 30;
                    let alignment = usize::try_from(alignment).ok().filter(|_| fits);
                    hints.alignment =
                        alignment.ok_or_else(|| bad(key, value, SettingError::NotPowerOfTwo { most: 30 }))?;
                }
                "transom_huge_pages" => hints.huge_pages = switch(key, value)?.then_some(true),
                "transom_model" => hints.model = model(key, value)?,
                "transom_atomics" => hints.atomics = atomics(key, value)?,
                "transom_notify" => hints.notify = notify(key, value)?,
                _ => {}
            }
        }
        if matches!(flavor, Flavor::Shared | Flavor::Dynamic) {
            // Other ranks load and store the memory itself, so the window can't have a second copy.
            hints.model = Model::Unified;
        }
        // The memory of the other flavors is the program's.
        hints.huge_pages = hints.huge_pages.filter(|_| matches!(flavor, Flavor::Allocate | Flavor::Shared));
        Ok(hints)
    }

    /// The alignment of a part of `bytes`: the size of a huge page if the part is at least as large
    /// and the hint requests huge pages.
    pub(crate) fn alignment_of(&self, bytes: usize) -> usize {
        if self.huge_pages.is_some() && bytes >= HUGE_PAGE { self.alignment.max(HUGE_PAGE) } else { self.alignment }
    }

    /// Updates the hints that may change after creation (`MPI_WIN_SET_INFO`). The others stay. In
    /// MPI programs two of them change without an effect, because MPICH reports them as set.
    pub(crate) fn update(&mut self, info: &Info) -> Result<()> {
        let mut new = self.clone();
        for (key, value) in info.iter() {
            match key {
                "no_locks" => new.no_locks = switch(key, value)?,
                "alloc_shared_noncontig" if self.forgiving => new.noncontig = switch(key, value)?,
                "mpi_accumulate_granularity" if self.forgiving => new.granularity = number(key, value)?,
                "same_size" => new.same_size = switch(key, value)?,
                "same_disp_unit" => new.same_disp_unit = switch(key, value)?,
                "accumulate_ordering" => new.ordering = ordering(key, value)?,
                "mpi_assert_max_num_notify" => new.most_notices = Some(number(key, value)?),
                "mpi_assert_same_num_notifications" => new.same_notices = Some(switch(key, value)?),
                "accumulate_ops" => {
                    new.same_op = match value {
                        "same_op" => true,
                        "same_op_no_op" => false,
                        _ => return Err(bad(key, value, SettingError::NotOneOf(&["same_op", "same_op_no_op"]))),
                    }
                }
                _ => {}
            }
        }
        *self = new;
        Ok(())
    }

    /// Every hint with the value in force (`MPI_WIN_GET_INFO`).
    pub(crate) fn in_force(&self) -> Info {
        let switch = |on: bool| if on { "true" } else { "false" };
        let ordered: Vec<&str> =
            ORDERINGS.iter().zip(self.ordering).filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        let atomics = match self.atomics {
            None | Some(Atomics::Auto) => "auto",
            Some(Atomics::Cpu) => "cpu",
            Some(Atomics::Nic) => "nic",
        };
        let notify = match self.notify {
            Notify::Auto => "auto",
            Notify::Cpu => "cpu",
            Notify::Device => "device",
        };
        let mut info = Info::new()
            .with("no_locks", switch(self.no_locks))
            .with("accumulate_ordering", if ordered.is_empty() { "none".to_owned() } else { ordered.join(",") })
            .with("accumulate_ops", if self.same_op { "same_op" } else { "same_op_no_op" })
            .with("same_size", switch(self.same_size))
            .with("same_disp_unit", switch(self.same_disp_unit))
            .with("alloc_shared_noncontig", switch(self.noncontig))
            .with("mpi_accumulate_granularity", self.granularity.to_string())
            .with("mpi_minimum_alignment", self.alignment.to_string())
            .with("mpi_minimum_memory_alignment", self.alignment.to_string())
            .with("transom_huge_pages", switch(self.huge_pages == Some(true)))
            .with("transom_model", if self.model == Model::Separate { "separate" } else { "unified" })
            .with("transom_atomics", atomics)
            .with("transom_notify", notify);
        if let Some(most) = self.most_notices {
            info = info.with("mpi_assert_max_num_notify", most.to_string());
        }
        if let Some(same) = self.same_notices {
            info = info.with("mpi_assert_same_num_notifications", switch(same));
        }
        info
    }

    /// Whether locks are errors.
    pub(crate) fn forbids_locks(&self) -> bool {
        self.no_locks && !self.forgiving
    }

    pub(crate) fn is_forgiving(&self) -> bool {
        self.forgiving
    }

    /// Whether accumulates of one origin on one location keep their order.
    pub(crate) fn ordered(&self) -> bool {
        self.ordering.contains(&true)
    }

    /// Whether accumulates are performed element by element by the CPU's atomics, instead of under
    /// locks by vector code. A granularity of 1 to 8 bytes selects it.
    pub(crate) fn per_element(&self) -> bool {
        (1..=8).contains(&self.granularity)
    }
}

fn bad(key: &str, value: &str, reason: SettingError) -> Error {
    let (key, value) = (key.to_owned(), value.to_owned());
    Error::argument(Class::InfoValue, "info", ArgumentError::Hint { key, value, reason })
}

fn switch(key: &str, value: &str) -> Result<bool> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(key, value, SettingError::NotOneOf(&["true", "false"]))),
    }
}

fn number(key: &str, value: &str) -> Result<u64> {
    value.parse().map_err(|_| bad(key, value, SettingError::NotInteger))
}

fn ordering(key: &str, value: &str) -> Result<[bool; 4]> {
    let mut ordered = [false; 4];
    if value == "none" {
        return Ok(ordered);
    }
    for name in value.split(',').map(str::trim) {
        let index = ORDERINGS.iter().position(|known| *known == name);
        ordered[index.ok_or_else(|| bad(key, value, SettingError::NotListOf(&ORDERINGS)))?] = true;
    }
    Ok(ordered)
}

fn model(key: &str, value: &str) -> Result<Model> {
    match value {
        "unified" => Ok(Model::Unified),
        "separate" => Ok(Model::Separate),
        _ => Err(bad(key, value, SettingError::NotOneOf(&["unified", "separate"]))),
    }
}

fn atomics(key: &str, value: &str) -> Result<Option<Atomics>> {
    match value {
        "auto" => Ok(None),
        "cpu" => Ok(Some(Atomics::Cpu)),
        "nic" => Ok(Some(Atomics::Nic)),
        _ => Err(bad(key, value, SettingError::NotOneOf(&["auto", "cpu", "nic"]))),
    }
}

fn notify(key: &str, value: &str) -> Result<Notify> {
    match value {
        "auto" => Ok(Notify::Auto),
        "cpu" => Ok(Notify::Cpu),
        "device" => Ok(Notify::Device),
        _ => Err(bad(key, value, SettingError::NotOneOf(&["auto", "cpu", "device"]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows W6.
    #[test]
    fn hints_in_force_are_returned_and_unknown_keys_are_ignored() {
        let info = Info::new().with("no_locks", "true").with("color", "green").with("accumulate_ordering", "rar, waw");
        let hints = Hints::at_creation(&info, Flavor::Allocate).expect("fine");
        let in_force = hints.in_force();
        assert_eq!((in_force.get("no_locks"), in_force.get("color")), (Some("true"), None));
        assert_eq!(in_force.get("accumulate_ordering"), Some("rar,waw"));
        let info = Info::new().with("mpi_assert_max_num_notify", "7").with("mpi_assert_same_num_notifications", "true");
        let in_force = Hints::at_creation(&info, Flavor::Allocate).expect("fine").in_force();
        assert_eq!(in_force.get("mpi_assert_same_num_notifications"), Some("true"));
        assert_eq!(in_force.get("mpi_assert_max_num_notify"), Some("7"));
    }

    /// Shows W6.
    #[test]
    fn fixed_hints_stay_and_illegal_values_change_no_hint() {
        let info = Info::new().with("transom_model", "separate").with("mpi_accumulate_granularity", "8");
        let mut hints = Hints::at_creation(&info, Flavor::Create).expect("fine");
        assert!(hints.per_element() && hints.model == Model::Separate);
        let before = hints.clone();
        hints
            .update(&Info::new().with("transom_model", "unified").with("mpi_accumulate_granularity", "0"))
            .expect("ignored");
        assert_eq!(hints, before);
        let set = Info::new().with("alloc_shared_noncontig", "true").with("mpi_accumulate_granularity", "4");
        hints.forgiving = true;
        hints.update(&set).expect("stored");
        assert!(set.iter().all(|(key, value)| hints.in_force().get(key) == Some(value)), "{hints:?}");
        let mut hints = before.clone();
        let bad = Info::new().with("no_locks", "true").with("accumulate_ordering", "rar,none");
        let error = hints.update(&bad).expect_err("none stands alone");
        assert_eq!(error.class(), Class::InfoValue);
        assert_eq!(hints, before, "nothing was taken over");
        let shared = Hints::at_creation(&info, Flavor::Shared).expect("fine");
        assert_eq!(shared.model, Model::Unified);
        for (key, value) in
            [("no_locks", "1"), ("mpi_minimum_alignment", "12"), ("transom_atomics", "gpu"), ("transom_notify", "nic")]
        {
            assert!(Hints::at_creation(&Info::new().with(key, value), Flavor::Create).is_err(), "{key}={value}");
        }
    }
}
