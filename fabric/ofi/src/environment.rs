//! Settings that libfabric takes only from the environment.

use std::path::Path;

use crate::rules::Rules;

/// The kernel's folder of RDMA devices.
const RDMA: &str = "/sys/class/infiniband";

/// Sets the provider's variables, unless the user has set them. Variables for software RDMA devices
/// are set only where this machine has one.
pub(crate) fn set_defaults(rules: &Rules) {
    set(rules.variables);
    if !rules.variables_in_software.is_empty() && any_in_software(Path::new(RDMA)) {
        set(rules.variables_in_software);
    }
}

/// The value of a variable. Bytes that are not UTF-8 are replaced, so that such a value equals none
/// of those that have a meaning.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn set(variables: &[(&str, &str)]) {
    for (name, value) in variables.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        // SAFETY: std excludes its own readers of the environment. C code of other threads would
        // have to read it during the job's start, when C programs call setenv for their libraries
        // too.
        unsafe { std::env::set_var(name, value) };
    }
}

/// Whether one of the devices is implemented in software by the kernel (rxe). Such devices are on
/// no bus.
fn any_in_software(class: &Path) -> bool {
    let Ok(devices) = std::fs::read_dir(class) else { return false };
    let places = devices.flatten().filter_map(|device| device.path().canonicalize().ok());
    places.into_iter().any(|place| place.components().any(|part| part.as_os_str() == "virtual"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links as in sysfs: of devices on a bus, and of a device on none.
    /// Shows T3.
    #[test]
    fn software_devices_are_on_no_bus() {
        let root = std::env::temp_dir().join(format!("transom-rdma-{}", std::process::id()));
        let class = root.join("class");
        std::fs::create_dir_all(&class).expect("a folder");
        let add = |name: &str, place: &str| {
            std::fs::create_dir_all(root.join(place)).expect("a folder");
            std::os::unix::fs::symlink(root.join(place), class.join(name)).expect("a link");
        };
        assert!(!any_in_software(&root.join("none")));
        add("mlx5_0", "pci0000/mlx5_0");
        assert!(!any_in_software(&class));
        add("rxe0", "virtual/rxe0");
        assert!(any_in_software(&class));
        std::fs::remove_dir_all(root).expect("it was made here");
    }
}
