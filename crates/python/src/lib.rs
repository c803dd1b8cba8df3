//! GT's Python extension `gt._core`: arguments in, calls into the client, exceptions out. Nothing else belongs here.

mod allocator;
mod args;
mod autograd;
mod cli;
mod create;
mod data;
mod data_report;
mod data_source;
mod debug;
mod device;
mod dlpack;
mod dtype;
mod errors;
mod exit;
mod generator;
mod host;
mod index;
mod join;
mod loader;
mod nn;
mod random;
mod rows;
mod safetensors;
mod session;
mod signals;
mod site;
mod tensor;
mod wait;
mod worker_run;

use pyo3::prelude::*;

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    wait::install(m.py())?;
    m.add_class::<tensor::PyTensor>()?;
    m.add_class::<dtype::PyDType>()?;
    m.add_class::<device::PyDevice>()?;
    m.add_class::<generator::PyGenerator>()?;
    m.add_class::<host::HostBuffer>()?;
    m.add_class::<autograd::PyNode>()?;
    m.add_class::<autograd::HookHandle>()?;
    dtype::register(m)?;
    create::register(m)?;
    random::register(m)?;
    rows::register(m)?;
    join::register(m)?;
    nn::register(m)?;
    generator::register(m)?;
    autograd::register(m)?;
    dlpack::register(m)?;
    debug::register(m)?;
    exit::register(m)?;
    session::register(m)?;
    signals::install();
    signals::register(m)?;
    cli::register(m)?;
    loader::register(m)?;
    data_source::register(m)?;
    data_report::register(m)?;
    safetensors::register(m)?;
    Ok(())
}
