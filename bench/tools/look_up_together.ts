// Gives the same answer as `look_up`, on one event loop with the calls that wait.
export { description, parameters, run, sideEffects } from './look_up.ts';

export const concurrency = 2_000;
