//! Fast matrix products for MLX on Linux CPUs: three CBLAS symbols, forwarded to OpenBLAS.
//!
//! MLX's CPU wheel imports `cblas_sgemm`, `cblas_dgemm` and `cblas_cgemm` and ships the reference BLAS for them, some
//! seventy times slower than OpenBLAS. This extension exports the same three names. [`blas_load`] finds the functions in
//! an OpenBLAS library first and only then moves this shared object into the process's global symbol scope, where the
//! dynamic linker looks before it looks at MLX's own dependencies.
//!
//! # Safety argument
//! This is the only module with unsafe code. What it rests on:
//!
//! * *Signatures.* The three functions are declared as CBLAS defines them with 32-bit integers (LP64). A library whose
//!   configuration names 64-bit integers is refused, and whoever resolves the plain names expects LP64: libraries built
//!   for 64-bit integers use suffixed names (NumPy: `scipy_cblas_sgemm64_`), which are not interposed here.
//! * *Arguments* are passed on untouched; a caller's contract with CBLAS is the contract with OpenBLAS.
//! * *Lifetime.* Library handles are never closed, so a function pointer stays valid until the process ends.
//! * *No target.* The object is promoted only when all targets are known. If somebody else made it global (by
//!   `sys.setdlopenflags`), a call without a target goes to the BLAS that MLX itself depends on; where there is none the
//!   process ends with a message, since a matrix product that silently does nothing would be worse.
//! * *Threads.* The targets are written once, through a `OnceLock`, before the promotion; the counter is atomic.
//! * *No unwinding.* A panic in an `extern "C"` function aborts; it does not unwind into C.
#![allow(unsafe_code)]

use pyo3::prelude::*;

/// Adds this module's functions to the extension module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(blas_load, module)?)?;
    module.add_function(wrap_pyfunction!(blas_calls, module)?)?;
    module.add_function(wrap_pyfunction!(blas_config, module)?)?;
    module.add_function(wrap_pyfunction!(blas_threads, module)?)?;
    module.add_function(wrap_pyfunction!(blas_set_threads, module)?)
}

/// Loads the OpenBLAS at `path` and puts its matrix products in the global symbol scope; a second call changes nothing.
///
/// Raises `OSError` with the reason, leaving everything as it was, where this cannot be done.
#[pyfunction]
fn blas_load(py: Python<'_>, path: String) -> PyResult<()> {
    py.detach(|| imp::load(&path)).map_err(pyo3::exceptions::PyOSError::new_err)
}

/// Matrix products forwarded to OpenBLAS so far, in this process.
#[pyfunction]
fn blas_calls() -> u64 {
    imp::calls()
}

/// OpenBLAS's description of itself; `None` before `blas_load`.
#[pyfunction]
fn blas_config() -> Option<String> {
    imp::config()
}

/// Threads OpenBLAS uses; `None` before `blas_load`.
#[pyfunction]
fn blas_threads() -> Option<i32> {
    imp::threads()
}

/// Sets the number of OpenBLAS's threads (at least 1); nothing happens before `blas_load`.
#[pyfunction]
fn blas_set_threads(threads: i32) {
    imp::set_threads(threads.max(1));
}

#[cfg(not(target_os = "linux"))]
mod imp {
    pub(super) fn load(_path: &str) -> Result<(), String> {
        Err("interposing a BLAS is only done on Linux".to_owned())
    }
    pub(super) fn calls() -> u64 {
        0
    }
    pub(super) fn config() -> Option<String> {
        None
    }
    pub(super) fn threads() -> Option<i32> {
        None
    }
    pub(super) fn set_threads(_threads: i32) {}
}

#[cfg(target_os = "linux")]
mod imp {
    use std::ffi::{CStr, CString, c_char, c_int, c_void};
    use std::mem::{MaybeUninit, transmute};
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, OnceLock, PoisonError};

    /// `cblas_?gemm` over elements `T`; `S` is how alpha and beta are passed: by value if real, by address if complex.
    type Gemm<S, T> = unsafe extern "C" fn(
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        c_int,
        S,
        *const T,
        c_int,
        *const T,
        c_int,
        S,
        *mut T,
        c_int,
    );
    type Sgemm = Gemm<f32, f32>;
    type Dgemm = Gemm<f64, f64>;
    type Cgemm = Gemm<*const c_void, c_void>;
    type GetConfig = unsafe extern "C" fn() -> *const c_char;
    type GetThreads = unsafe extern "C" fn() -> c_int;
    type SetThreads = unsafe extern "C" fn(c_int);

    /// The functions of one CBLAS library.
    struct Products {
        sgemm: Sgemm,
        dgemm: Dgemm,
        cgemm: Cgemm,
    }

    /// OpenBLAS: its products, and how it is asked and told about itself.
    struct OpenBlas {
        products: Products,
        get_config: GetConfig,
        get_threads: GetThreads,
        set_threads: SetThreads,
    }

    static OPENBLAS: OnceLock<OpenBlas> = OnceLock::new();
    static REFERENCE: OnceLock<Products> = OnceLock::new();
    static LOADING: Mutex<()> = Mutex::new(());
    static CALLS: AtomicU64 = AtomicU64::new(0);

    /// A library opened by the dynamic linker, never closed.
    struct Library(NonNull<c_void>);

    impl Library {
        fn open(path: &CStr, flags: c_int) -> Result<Self, String> {
            // SAFETY: `path` is NUL-terminated; the library's own initialisers run, as with any import of it.
            let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
            NonNull::new(handle).map(Self).ok_or_else(last_error)
        }

        fn symbol(&self, name: &CStr) -> Result<NonNull<c_void>, String> {
            // SAFETY: the handle came from `dlopen` and was never closed; `name` is NUL-terminated.
            let found = unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) };
            NonNull::new(found).ok_or_else(last_error)
        }

        fn products(&self, sgemm: &CStr, dgemm: &CStr, cgemm: &CStr) -> Result<Products, String> {
            let (sgemm, dgemm, cgemm) = (self.symbol(sgemm)?, self.symbol(dgemm)?, self.symbol(cgemm)?);
            // SAFETY: each address is that of the CBLAS function of its name, whose signature the type states.
            Ok(unsafe {
                Products {
                    sgemm: transmute::<NonNull<c_void>, Sgemm>(sgemm),
                    dgemm: transmute::<NonNull<c_void>, Dgemm>(dgemm),
                    cgemm: transmute::<NonNull<c_void>, Cgemm>(cgemm),
                }
            })
        }
    }

    fn last_error() -> String {
        // SAFETY: `dlerror` returns null or a NUL-terminated text of this thread, valid until its next `dl*` call.
        let text = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text).to_string_lossy().into_owned()) };
        text.unwrap_or_else(|| "not found by the dynamic linker".to_owned())
    }

    pub(super) fn load(path: &str) -> Result<(), String> {
        let _one_at_a_time = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if OPENBLAS.get().is_none() {
            let found = open_blas(path)?;
            // Before the promotion: from then on a call can come from any thread.
            OPENBLAS.get_or_init(|| found);
        }
        promote()
    }

    fn open_blas(path: &str) -> Result<OpenBlas, String> {
        let path = CString::new(path).map_err(|_| "the path holds a NUL character".to_owned())?;
        let library = Library::open(&path, libc::RTLD_NOW | libc::RTLD_LOCAL)?;
        let products = library.products(c"scipy_cblas_sgemm", c"scipy_cblas_dgemm", c"scipy_cblas_cgemm")?;
        let get_config = library.symbol(c"scipy_openblas_get_config")?;
        let get_threads = library.symbol(c"scipy_openblas_get_num_threads")?;
        let set_threads = library.symbol(c"scipy_openblas_set_num_threads")?;
        // SAFETY: OpenBLAS's public header declares these three with these signatures.
        let found = unsafe {
            OpenBlas {
                products,
                get_config: transmute::<NonNull<c_void>, GetConfig>(get_config),
                get_threads: transmute::<NonNull<c_void>, GetThreads>(get_threads),
                set_threads: transmute::<NonNull<c_void>, SetThreads>(set_threads),
            }
        };
        if describe(&found).contains("USE64BITINT") {
            return Err("this OpenBLAS takes 64-bit integers, MLX passes 32-bit ones".to_owned());
        }
        Ok(found)
    }

    /// Moves this shared object into the global symbol scope.
    fn promote() -> Result<(), String> {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // A private symbol: an exported one might have been interposed itself, and name another object.
        let inside = (&raw const CALLS).cast::<c_void>();
        // SAFETY: the address lies in this object, and `info` is writable.
        let known = unsafe { libc::dladdr(inside, info.as_mut_ptr()) };
        // SAFETY: `Dl_info` is plain pointers, for which zero is a valid value, filled or not.
        let name = unsafe { info.assume_init() }.dli_fname;
        if known == 0 || name.is_null() {
            return Err("the dynamic linker does not know this extension's file".to_owned());
        }
        // SAFETY: the linker's own NUL-terminated name of a loaded object, alive while the object is.
        let name = unsafe { CStr::from_ptr(name) };
        Library::open(name, libc::RTLD_NOW | libc::RTLD_GLOBAL | libc::RTLD_NOLOAD).map(drop)
    }

    fn describe(library: &OpenBlas) -> String {
        // SAFETY: returns a NUL-terminated text in static storage, or null.
        let text = unsafe { (library.get_config)().as_ref().map(|text| CStr::from_ptr(text)) };
        text.map(|text| text.to_string_lossy().trim().to_owned()).unwrap_or_default()
    }

    pub(super) fn calls() -> u64 {
        CALLS.load(Ordering::Relaxed)
    }

    pub(super) fn config() -> Option<String> {
        OPENBLAS.get().map(describe)
    }

    pub(super) fn threads() -> Option<i32> {
        // SAFETY: takes nothing and reads one integer.
        OPENBLAS.get().map(|library| unsafe { (library.get_threads)() })
    }

    pub(super) fn set_threads(threads: i32) {
        if let Some(library) = OPENBLAS.get() {
            // SAFETY: any positive number is allowed; OpenBLAS clamps it to what it was built for.
            unsafe { (library.set_threads)(threads) }
        }
    }

    /// Where a call goes: OpenBLAS, or without it the BLAS among MLX's own dependencies.
    fn products() -> &'static Products {
        match OPENBLAS.get() {
            Some(library) => {
                CALLS.fetch_add(1, Ordering::Relaxed);
                &library.products
            }
            None => REFERENCE.get_or_init(|| reference().unwrap_or_else(|reason| stop(&reason))),
        }
    }

    fn reference() -> Result<Products, String> {
        // A lookup through a handle searches that library and its dependencies, not the global scope: never this module.
        Library::open(c"libmlx.so", libc::RTLD_NOW | libc::RTLD_NOLOAD)?.products(
            c"cblas_sgemm",
            c"cblas_dgemm",
            c"cblas_cgemm",
        )
    }

    fn stop(reason: &str) -> ! {
        eprintln!("jevmlx: a matrix product was asked for, and no BLAS is loaded to compute it: {reason}");
        std::process::abort()
    }

    /// Exports one CBLAS product under its plain name.
    macro_rules! forward {
        ($name:ident, $field:ident, $scalar:ty, $element:ty) => {
            // SAFETY: the name is CBLAS's and so is the signature; see the module's safety argument for interposing it.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                order: c_int,
                trans_a: c_int,
                trans_b: c_int,
                m: c_int,
                n: c_int,
                k: c_int,
                alpha: $scalar,
                a: *const $element,
                lda: c_int,
                b: *const $element,
                ldb: c_int,
                beta: $scalar,
                c: *mut $element,
                ldc: c_int,
            ) {
                let product = products().$field;
                // SAFETY: the arguments are the caller's, unchanged; the target has the contract the caller relies on.
                unsafe { product(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc) }
            }
        };
    }

    forward!(cblas_sgemm, sgemm, f32, f32);
    forward!(cblas_dgemm, dgemm, f64, f64);
    forward!(cblas_cgemm, cgemm, *const c_void, c_void);
}
