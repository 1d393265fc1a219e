import { NightshiftError } from '../base/errors.ts';

/** What is true in a state: kept beside it so that code, docs and diagrams cannot drift apart. */
export interface StateDoc {
  /** What is true of the row while it is in this state. */
  readonly meaning: string;
  /** Who moves it on. */
  readonly next: string;
  /** What wakes that one, and how long the state may last. */
  readonly wakes: string;
}

/** A state machine as data: states with their docs, and for each event the states it may leave and the one it reaches. */
export interface Machine<State extends string, Event extends string> {
  readonly name: string;
  /** The states that a story begins in; a row may be written when it has gone further already. */
  readonly initial: readonly State[];
  readonly states: Readonly<Record<State, StateDoc>>;
  readonly events: Readonly<Record<Event, { readonly from: readonly State[]; readonly to: State }>>;
}

/** The state that `event` leads to; throws `illegal_transition` where the machine has no such edge. */
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

/** True where the machine has an edge for `event` out of `state`. */
export function canTake<State extends string, Event extends string>(
  machine: Machine<State, Event>,
  state: State,
  event: Event,
): boolean {
  return machine.events[event].from.includes(state);
}

/** The states that no event leaves. */
export function terminalStates<State extends string, Event extends string>(
  machine: Machine<State, Event>,
): readonly State[] {
  const left = new Set(
    Object.values<{ readonly from: readonly State[] }>(machine.events).flatMap((edge) => edge.from),
  );
  return (Object.keys(machine.states) as State[]).filter((state) => !left.has(state));
}
