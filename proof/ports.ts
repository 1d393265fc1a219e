/** The ports of a simulated worker. Each call is an effect of the world, which may delay or lose it. */
import type { BellPort, CallbackPort } from '../apps/worker/src/flow-parts/deps.ts';
import type { ProviderPort, ResultsOutcome } from '../apps/worker/src/provider/port.ts';
import { createPlaces } from '../apps/worker/src/tools/places.ts';
import type { ToolReply, ToolRequest, ToolRunners } from '../apps/worker/src/tools/runner.ts';
import { runnersOf, type ToolPort } from '../test/runners-of.ts';
import { createProviderClock, momentNow } from '../apps/worker/src/provider/provider-clock.ts';
import { blobBytes } from './replace-globals.ts';
import type { Provider } from './provider.ts';
import { interrupted, openResults } from './provider-results.ts';
import type { Random } from './random.ts';
import type { ToolWorld } from './tools.ts';
import type { World } from './world.ts';

/** Creates the provider's port. */
export function createProviderPort(
  world: World,
  provider: Provider,
  random: Random,
  seed: string,
): ProviderPort {
  const clock = createProviderClock();
  /** `isAnswer`: whether the value is an answer, which carries the provider's time. */
  const call = async <T>(
    label: string,
    ask: () => { readonly value: T; readonly afterMs?: number },
    isAnswer: (value: T) => boolean = () => true,
  ): Promise<T> => {
    const begun = momentNow();
    let header: string | null = null;
    const value = await world.park<T>('call', label, () => {
      header = provider.clocks.dateHeader();
      return { ok: true, ...ask() };
    });
    if (isAnswer(value)) clock.note(begun, header);
    return value;
  };
  return {
    provider: 'anthropic',
    clock: {
      read: () => clock.read(),
      async refresh() {
        await call('provider.time', () => ({ value: null }));
      },
    },
    createBatch(body, { timeoutMs }) {
      const bytes = blobBytes(body);
      return call(
        'provider.create',
        () => provider.create(bytes, timeoutMs),
        ({ outcome }) => outcome !== 'unknown',
      );
    },
    listBatches: ({ createdAfter }) => call('provider.list', () => ({ value: provider.list(createdAfter) })),
    retrieveBatch: (id) => call(`provider.retrieve ${id}`, () => ({ value: provider.retrieve(id) })),
    cancelBatch: (id) => call(`provider.cancel ${id}`, () => ({ value: provider.cancel(id) })),
    async streamResults(id, { idleTimeoutMs }): Promise<ResultsOutcome> {
      const file = await call(`provider.results ${id}`, () => ({
        value: openResults(world, provider, random, seed, id),
      }));
      if ('outcome' in file) return file;
      async function* read(): AsyncGenerator<Buffer> {
        if ('outcome' in file) return;
        for (const piece of file.pieces)
          yield await call(
            'provider.stream',
            () => ({ value: piece }),
            () => false,
          );
        if (file.end === 'clean') return;
        await call(
          'provider.stream breaks',
          () => ({ value: null, afterMs: file.end === 'silent' ? idleTimeoutMs : 0 }),
          () => false,
        );
        throw interrupted(file.end);
      }
      return { outcome: 'open', chunks: read() };
    },
  };
}

/** Few places, so that calls wait for them. */
const PLACES = { once_max: 2, result_chars_max: 4_000 };

/**
 * Creates the runners of a worker, on the only port whose calls can fail. The quick calls of one moment are one effect, each
 * slow call is an effect of its own.
 */
export function createSimulatedRunners(world: World, tools: ToolWorld): ToolRunners {
  const portOf = (label: string, afterMs: number): ToolPort => ({
    runCalls: (calls: readonly ToolRequest[]) =>
      world.park<readonly ToolReply[]>(
        'call',
        `${label} ${calls.length}`,
        () => ({ ok: true, value: tools.run(calls), afterMs }),
        new Error('The tool host is away.'),
      ),
  });
  const quick = runnersOf(portOf('tools.run', 0));
  return {
    ...quick,
    places: createPlaces(PLACES),
    run(request, options) {
      const delayMs = tools.delayMs(request);
      const runners = delayMs === 0 ? quick : runnersOf(portOf('tools.run slowly', delayMs));
      return runners.run(request, options);
    },
  };
}

/** Creates a bell that loses, doubles and delays signals. `deliver` passes a signal to a worker. */
export function createBellPort(
  world: World,
  faults: () => { readonly lose: number; readonly double: number; readonly delayMsMax: number },
  deliver: (kind: Parameters<BellPort['ring']>[0][number]['kind']) => void,
): BellPort {
  return {
    ring: (signals) =>
      world.park<undefined>('call', 'bell.ring', () => {
        const { lose, double, delayMsMax } = faults();
        for (const { kind } of signals) {
          const times = world.random.chance(lose) ? 0 : world.random.chance(double) ? 2 : 1;
          for (let time = 0; time < times; time++)
            world.at(world.random.int(0, delayMsMax), `bell ${kind}`, () => deliver(kind));
        }
        return { ok: true, value: undefined };
      }),
  };
}

/** Creates the receiver of callbacks. `failing`: share of calls with a bad answer or none. */
export function createCallbackPort(
  world: World,
  failing: () => number,
  received: Map<string, number>,
): CallbackPort {
  return {
    post: ({ id }) =>
      world.park('call', 'callback', () => {
        received.set(id, (received.get(id) ?? 0) + 1);
        if (!world.random.chance(failing())) return { ok: true, value: { kind: 'answered', status: 204 } };
        const value = world.random.pick([
          { kind: 'answered', status: 500 },
          { kind: 'unreachable', reason: 'timeout', permanent: false },
        ]);
        return { ok: true, value, afterMs: 1_000 };
      }),
  };
}
