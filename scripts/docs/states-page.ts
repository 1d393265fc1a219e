import {
  batchMachine,
  providerBatchMachine,
  runMachine,
  stepMachine,
  STOP_REASONS,
  terminalStates,
  toolCallMachine,
  type Machine,
  type StateDoc,
} from '../../libs/agent-core/src/index.ts';
import { code, generatedFrom, page, table } from './markdown.ts';
import { STOP_REASON_DOCS } from './stop-reasons.ts';

/** The machines, outermost first, with a description of their rows. */
const MACHINES: readonly { readonly machine: Machine<string, string>; readonly intro: string }[] = [
  { machine: batchMachine, intro: 'What a user submits: runs, limits, callback.' },
  { machine: runMachine, intro: 'One agent taken through one batch until it ends.' },
  { machine: stepMachine, intro: 'One model request of a run, its answer, and the tool calls it made.' },
  {
    machine: providerBatchMachine,
    intro: 'One upstream message batch: many steps of many runs of many batches.',
  },
  { machine: toolCallMachine, intro: 'One tool use of a step.' },
];

/** Builds the page of states, transitions and stop reasons. */
export function statesPage(): string {
  return page([
    '# States',
    generatedFrom(['`libs/agent-core/src/machine`']),
    'Every row that needs work is in one of these states. The core refuses a transition that is not listed, ' +
      'the statement that writes one names the state it expects, and the constraints of the table say what each state ' +
      'must carry.',
    ...MACHINES.flatMap(({ machine, intro }) => machineSection(machine, intro)),
    ...stopReasonsSection(),
  ]);
}

function machineSection(machine: Machine<string, string>, intro: string): readonly string[] {
  return [
    `## ${machine.name.charAt(0).toUpperCase()}${machine.name.slice(1)}`,
    intro,
    stateDiagram(machine),
    table(
      ['State', 'Meaning', 'Next actor', 'Wake-up, and longest stay'],
      Object.entries<StateDoc>(machine.states).map(([state, doc]) => [
        code(state),
        doc.meaning,
        doc.next,
        doc.wakes,
      ]),
    ),
    table(
      ['Event', 'From', 'To'],
      Object.entries(machine.events).map(([event, { from, to }]) => [
        code(event),
        from.map(code).join(', '),
        code(to),
      ]),
    ),
  ];
}

/** Draws a machine as a mermaid diagram; events between the same states share an arrow. */
export function stateDiagram(machine: Machine<string, string>): string {
  const arrows = new Map<string, string[]>();
  for (const [event, { from, to }] of Object.entries(machine.events)) {
    for (const state of from) {
      const arrow = `${state} --> ${to}`;
      arrows.set(arrow, [...(arrows.get(arrow) ?? []), event]);
    }
  }
  return [
    '```mermaid',
    'stateDiagram-v2',
    ...machine.initial.map((state) => `  [*] --> ${state}`),
    ...[...arrows].map(([arrow, events]) => `  ${arrow}: ${events.join(', ')}`),
    ...terminalStates(machine).map((state) => `  ${state} --> [*]`),
    '```',
  ].join('\n');
}

function stopReasonsSection(): readonly string[] {
  const rows = (reserved: boolean): readonly (readonly string[])[] =>
    STOP_REASONS.filter((reason) => (STOP_REASON_DOCS[reason].reserved ?? false) === reserved).map(
      (reason) => {
        const { ends_as, when } = STOP_REASON_DOCS[reason];
        return [code(reason), code(ends_as), when];
      },
    );
  const reserved = rows(true);
  return [
    '## Stop reasons',
    'Every ended run has a stop reason; a failed run also has an error with details. On the wire it is the `ended_reason` of ' +
      'the run. `stop_reason` is the nearest name in the clients of Letta (1.6.4), `error` for most failures. The filter ' +
      '`stop_reason` of `GET /v1/runs` takes both.',
    table(['Stop reason', 'The run is', 'When'], rows(false)),
    ...(reserved.length === 0
      ? []
      : [
          'These names are reserved; this release ends no run with them.',
          table(['Stop reason', 'The run would be', 'When'], reserved),
        ]),
  ];
}
