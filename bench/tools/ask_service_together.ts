// Waits for a service as `ask_service` does, on one event loop with all other calls.
export { description, parameters, run, sideEffects } from './ask_service.ts';

export const concurrency = 2_000;
