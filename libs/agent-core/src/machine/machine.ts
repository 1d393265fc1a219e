import { NightshiftError } from '../base/errors.ts';

/** Documentation of a state, beside the state so that code, docs and diagrams agree. */
export interface StateDoc {
  /** Condition of the row in this state. */
  readonly meaning: string;
  /** Actor that moves the row on. */
  readonly next: string;
  /** Wake-up of that actor, and maximum duration of the state. */
  readonly wakes: string;
}

/** A state machine as data: documented states; source states and target of each event. */
export interface Machine<State extends string, Event extends string> {
  readonly name: string;
  /** Initial states. A row may first be written in a later state. */
  readonly initial: readonly State[];
  readonly states: Readonly<Record<State, StateDoc>>;
  readonly events: Readonly<Record<Event, { readonly from: readonly State[]; readonly to: State }>>;
}

/**
 * Returns the target state of `event`.
 * Throws: `illegal_transition` where the machine has no such edge.
 */
export function transition<State extends string, Event extends string>(
  machine: Machine<State, Event>,
  state: State,
  event: Event,
): State {
  const edge = machine.events[event];
  if (!edge.from.includes(state)) {
    throw new NightshiftError(
      'illegal_transition',
      `A ${machine.name} in state '${state}' cannot take '${event}'.`,
    );
  }
  return edge.to;
}

/** Returns whether `event` has an edge out of `state`. */
export function canTake<State extends string, Event extends string>(
  machine: Machine<State, Event>,
  state: State,
  event: Event,
): boolean {
  return machine.events[event].from.includes(state);
}

/** Returns the states without an outgoing edge. */
export function terminalStates<State extends string, Event extends string>(
  machine: Machine<State, Event>,
): readonly State[] {
  const left = new Set(
    Object.values<{ readonly from: readonly State[] }>(machine.events).flatMap((edge) => edge.from),
  );
  return (Object.keys(machine.states) as State[]).filter((state) => !left.has(state));
}
