import { modelPrice, parseModelHandle, toWireId } from '@nightshift/agent-core';
import { readModelsInUse, readNow } from '@nightshift/db';
import { judge, listOf, type CheckFunction } from './judged.ts';

/** Age of a price table after which prices have probably changed. Unit: days. */
const TABLE_OLD_DAYS = 180;
const DAY_MS = 86_400_000;

/** Checks that the models of agents have prices. */
export const checkPrices: CheckFunction<'prices'> = async ({ read, context: { prices, projectId } }) => {
  const { used, now } = await read(async (db) => ({
    used: await readModelsInUse(db, projectId),
    now: await readNow(db),
  }));
  const age = Math.floor((now.getTime() - Date.parse(prices.version.slice(0, 10))) / DAY_MS);
  const unpriced = used
    .filter(({ model }) => modelPrice(prices, parseModelHandle(model)?.name ?? model) === null)
    .map(({ model, agent_id }) => ({ model, agent_id: toWireId('agent', agent_id) }));
  return judge<'prices'>(
    { table_version: prices.version, table_age_days: age, unpriced },
    `All models of agents have prices, of the table ${prices.version}.`,
    [
      unpriced.length > 0 && [
        'failing',
        `The price table ${prices.version} lacks ${listOf(unpriced.map(({ model }) => model))}, which agents use.`,
        'Add the prices to a PRICES_FILE for API and workers and restart them, or change the model of the agents.',
      ],
      age > TABLE_OLD_DAYS && [
        'warning',
        `The price table ${prices.version} is ${age} days old.`,
        'Compare it with the prices of the provider; PRICES_FILE replaces it.',
      ],
    ],
  );
};
