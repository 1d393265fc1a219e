import { transition } from '../machine/machine.ts';
import { runMachine } from '../machine/run.ts';
import { failed, type RunFacts, type RunMove } from './decision.ts';

/** Ends a ready run whose own cap forbids the next step; `message` names the cap. */
export function decideNoBudget(run: Pick<RunFacts, 'state'>, message: string): RunMove {
  transition(runMachine, run.state, 'fail');
  return failed('budget_exceeded', message);
}
