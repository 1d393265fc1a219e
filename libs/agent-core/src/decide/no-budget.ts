import { transition } from '../machine/machine.ts';
import { runMachine } from '../machine/run.ts';
import { failed, type RunFacts, type RunMove } from './decision.ts';

/** The end of a run that is ready and whose next step its own cap forbids; `message` says which. */
export function decideNoBudget(run: Pick<RunFacts, 'state'>, message: string): RunMove {
  transition(runMachine, run.state, 'fail');
  return failed('budget_exceeded', message);
}
