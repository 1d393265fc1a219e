/**
 * Writes one row per statement in one transaction per step, through Kysely, as an engine without chunks does.
 */
import { Kysely, PostgresDialect, type Generated } from 'kysely';
import type pg from 'pg';
import { lookUp } from '../workload.ts';
import { parseLine } from './result-lines.ts';

interface FloorDatabase {
  item: { id: number; step_no: number; state: string };
  step: {
    item_id: number;
    step_no: number;
    pbatch_id: string;
    state: string;
    stop_reason: string;
    message_id: string;
    input_tokens: number;
    output_tokens: number;
    created_at: Generated<Date>;
  };
  message: { item_id: number; seq: number; role: string; content: string; created_at: Generated<Date> };
}

export function rowStore(pool: pg.Pool): Kysely<FloorDatabase> {
  return new Kysely<FloorDatabase>({ dialect: new PostgresDialect({ pool }) });
}

/** Applies one result line in one transaction: step, answer, tool result and item. */
export async function applyLine(db: Kysely<FloorDatabase>, pbatchId: string, text: string): Promise<void> {
  const line = parseLine(text);
  const result = line.call === null ? null : lookUp(line.call.input);
  await db.transaction().execute(async (trx) => {
    await trx
      .insertInto('step')
      .values({
        item_id: line.item,
        step_no: line.step,
        pbatch_id: pbatchId,
        state: 'done',
        stop_reason: line.stop_reason,
        message_id: line.message_id,
        input_tokens: line.input_tokens,
        output_tokens: line.output_tokens,
      })
      .execute();
    await trx
      .insertInto('message')
      .values({ item_id: line.item, seq: 2 * line.step - 1, role: 'assistant', content: line.content })
      .execute();
    if (line.call !== null && result !== null) {
      const content = JSON.stringify([{ type: 'tool_result', tool_use_id: line.call.id, content: result }]);
      await trx
        .insertInto('message')
        .values({ item_id: line.item, seq: 2 * line.step, role: 'user', content })
        .execute();
    }
    await trx
      .updateTable('item')
      .set(result === null ? { state: 'done' } : { state: 'ready', step_no: line.step + 1 })
      .where('id', '=', line.item)
      .where('step_no', '=', line.step)
      .execute();
  });
}
