//! The worker from outside: its start and end, queue, routes and clients.

mod api_docs;
mod clients;
mod lifecycle;
mod queue;
mod routes;
mod storage_faults;
mod storm;
