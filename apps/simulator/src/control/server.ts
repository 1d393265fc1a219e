import { createServer } from 'node:http';
import type { IncomingMessage, Server } from 'node:http';
import { z } from 'zod';
import type { ClockMode } from '../clock.ts';
import type { RuleInput } from '../faults/rule-schema.ts';
import type { SettingsChange } from '../settings.ts';
import { SCRIPTS } from '../scripts/registry.ts';
import { BATCH_COMMANDS } from './control.ts';
import type { Control } from './control.ts';

class NotFound extends Error {}

const resetBody = z.strictObject({ seed: z.union([z.string(), z.number()]).optional() });
const advanceBody = z.strictObject({ ms: z.number().nonnegative() });
const setBody = z.strictObject({ at: z.union([z.number(), z.iso.datetime({ offset: true })]) });
const modeBody = z.strictObject({ mode: z.string() });
const whole = z.coerce.number().int().nonnegative();
const journalQuery = z.strictObject({
  since: whole.default(0),
  limit: whole.default(1000),
  op: z.string().optional(),
});
const ledgerQuery = z.strictObject({
  content_hash: z.string().optional(),
  logical_key: z.string().optional(),
});
const batchQuery = z.strictObject({ items: z.enum(['0', '1']).default('0') });

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? {} : (JSON.parse(text) as unknown);
}

async function answer(control: Control, request: IncomingMessage): Promise<unknown> {
  const url = new URL(request.url ?? '/', 'http://control.invalid');
  const [, resource = '', name, verb] = url.pathname.split('/');
  const query = Object.fromEntries(url.searchParams);
  const body = request.method === 'POST' ? await readJson(request) : {};
  const clock = (): unknown => ({ now_ms: control.now(), now: new Date(control.now()).toISOString() });
  switch (
    `${request.method ?? ''} ${resource}${name === undefined ? '' : '/*'}${verb === undefined ? '' : '/*'}`
  ) {
    case 'GET healthz':
      return { status: 'ok', clock: clock(), batches: control.batches().length };
    case 'POST reset': {
      const { seed } = resetBody.parse(body);
      await control.reset(seed === undefined ? undefined : String(seed));
      return { status: 'ok' };
    }
    case 'GET config':
      return control.settings();
    case 'POST config':
      return control.configure(body as SettingsChange);
    case 'GET scripts':
      return { scripts: [...SCRIPTS.keys()] };
    case 'GET rules':
      return { rules: control.rules() };
    case 'POST rules':
      return { id: control.addRule(body as RuleInput) };
    case 'DELETE rules':
      control.clearRules();
      return { status: 'ok' };
    case 'DELETE rules/*':
      if (!control.removeRule(name ?? '')) throw new NotFound(`there is no rule "${name ?? ''}"`);
      return { status: 'ok' };
    case 'GET clock':
      return clock();
    case 'POST clock/*':
      if (name === 'advance') await control.advance(advanceBody.parse(body).ms);
      else if (name === 'set') await control.advanceTo(new Date(setBody.parse(body).at).getTime());
      else if (name === 'mode') control.setClockMode(modeBody.parse(body).mode as ClockMode);
      else throw new NotFound(`the clock can advance, set, mode; not "${name ?? ''}"`);
      return clock();
    case 'GET batches':
      return { batches: control.batches() };
    case 'GET batches/*': {
      const batch = control.batch(name ?? '');
      if (batch === undefined) throw new NotFound(`there is no batch "${name ?? ''}"`);
      return batchQuery.parse(query).items === '1'
        ? { ...batch, items: await control.items(batch.id) }
        : batch;
    }
    case 'POST batches/*/*': {
      const command = z.enum(BATCH_COMMANDS).parse(verb);
      const batch = await control.command(name ?? '', command);
      if (batch === undefined) throw new NotFound(`there is no batch "${name ?? ''}"`);
      return batch;
    }
    case 'GET journal': {
      const { since, limit, op } = journalQuery.parse(query);
      const found = control.journal(since, limit);
      return op === undefined
        ? found
        : { ...found, entries: found.entries.filter((entry) => entry.op === op) };
    }
    case 'GET ledger': {
      const { content_hash, logical_key } = ledgerQuery.parse(query);
      if (content_hash !== undefined)
        return { content_hash, billed: control.billed({ content_hash }) ?? null };
      if (logical_key !== undefined) return { logical_key, billed: control.billed({ logical_key }) ?? null };
      return control.ledger();
    }
    default:
      throw new NotFound(`${request.method ?? ''} ${url.pathname} is not a control route`);
  }
}

function statusOf(error: unknown): number {
  if (error instanceof NotFound) return 404;
  if (error instanceof z.ZodError || error instanceof SyntaxError || error instanceof RangeError) return 400;
  return 500;
}

/** Creates the control server: the control surface as JSON over HTTP. The caller starts it. */
export function createControlServer(control: Control): Server {
  return createServer((request, response) => {
    const send = (status: number, value: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(`${JSON.stringify(value)}\n`);
    };
    answer(control, request).then(
      (value) => send(200, value),
      (error: unknown) => {
        const message = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
        send(statusOf(error), { error: { message } });
      },
    );
  });
}
