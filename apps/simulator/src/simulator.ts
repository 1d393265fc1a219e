import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createApiServer } from './api/server.ts';
import { createClock } from './clock.ts';
import type { ClockMode } from './clock.ts';
import { createControl } from './control/control.ts';
import type { Control } from './control/control.ts';
import { createControlServer } from './control/server.ts';
import { DEFAULT_SETTINGS, changeSettings } from './settings.ts';
import type { SettingsChange } from './settings.ts';
import { createSpoolDir } from './spool-dir.ts';
import { createState } from './state.ts';

export interface SimulatorOptions {
  /** Seed of all ids and random draws. Default: `nightshift`. */
  readonly seed?: string;
  /** Distinguishes the batch ids of simulators with the same seed. Default: empty. */
  readonly instance?: string;
  /** Default `real`. */
  readonly clock?: ClockMode;
  /** Start of the clock, in ms since the epoch. Default: now. */
  readonly startMs?: number;
  /** Default `127.0.0.1`. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly apiPort?: number;
  /** Default 0: any free port. */
  readonly controlPort?: number;
  /** Directory for the spool folder of bodies and results. Default: `.data/simulator`. */
  readonly dataDir?: string;
  /** The only accepted API key. Default: any non-empty key. */
  readonly apiKey?: string;
  /** Changes to the default settings. */
  readonly settings?: SettingsChange;
}

/** A running simulator. */
export interface Simulator {
  /** The base URL for clients of the API. */
  readonly apiUrl: string;
  /** The base URL of the control port. */
  readonly controlUrl: string;
  /** The control surface without the port. */
  readonly control: Control;
  /** Closes all connections, stops, and deletes the spool folder. */
  close(): Promise<void>;
}

async function listen(server: Server, host: string, port: number): Promise<string> {
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address() as AddressInfo;
  const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${shown}:${address.port}`;
}

/**
 * Starts an Anthropic-compatible message-batch server and its control port in this process.
 * Throws: when a port is in use, a setting is invalid (ZodError that names it), or the data folder cannot be written.
 */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { seed = 'nightshift', host = '127.0.0.1', dataDir = '.data/simulator' } = options;
  const settings = changeSettings(DEFAULT_SETTINGS, options.settings ?? {});
  const clock = createClock(options.clock, options.startMs);
  const spoolDir = await createSpoolDir(dataDir);
  const stop = new AbortController();
  const { apiKey = null, instance = '' } = options;
  const state = createState({ clock, spoolDir, apiKey, instance, stopped: stop.signal }, seed, settings);
  const control = createControl(state);
  const api = createApiServer(state);
  const controls = createControlServer(control);

  async function close(): Promise<void> {
    stop.abort();
    clock.close();
    state.rules.clear();
    for (const server of [api, controls]) {
      server.close();
      server.closeAllConnections();
    }
    await Promise.allSettled(state.batches.all().map(async (batch) => batch.ending));
    await rm(spoolDir, { recursive: true, force: true, maxRetries: 5 });
  }

  try {
    const apiUrl = await listen(api, host, options.apiPort ?? 0);
    const controlUrl = await listen(controls, host, options.controlPort ?? 0);
    return { apiUrl, controlUrl, control, close };
  } catch (error) {
    await close();
    throw error;
  }
}
