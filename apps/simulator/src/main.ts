import { z } from 'zod';
import { readConfig } from './config.ts';
import type { Config } from './config.ts';
import { startSimulator } from './simulator.ts';

function configOrExit(): Config {
  try {
    return readConfig(process.env);
  } catch (error) {
    if (!(error instanceof z.ZodError)) throw error;
    process.stderr.write(`simulator: the environment is not usable\n${z.prettifyError(error)}\n`);
    process.exit(2);
  }
}

const { host, apiPort, controlPort, seed, latency, clock, apiKey, dataDir, exitWithParent } = configOrExit();
const simulator = await startSimulator({
  host,
  apiPort,
  controlPort,
  seed,
  clock,
  dataDir,
  // A database may outlive the simulator, so ids must not repeat after a restart.
  instance: new Date().toISOString(),
  settings: { latency },
  ...(apiKey === undefined ? {} : { apiKey }),
});

let stopping = false;
async function stop(): Promise<void> {
  if (stopping) return;
  stopping = true;
  await simulator.close();
  process.exit(0);
}

process.once('SIGTERM', () => void stop());
process.once('SIGINT', () => void stop());
if (exitWithParent) {
  // The parent holds the other end of stdin, which closes at the parent's end, even by SIGKILL.
  process.stdin.resume();
  process.stdin.once('end', () => void stop());
  process.stdin.once('error', () => void stop());
}

process.stdout.write(
  `${JSON.stringify({ listening: { api_url: simulator.apiUrl, control_url: simulator.controlUrl } })}\n`,
);
