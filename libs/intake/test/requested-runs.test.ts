import { expect, test } from 'vitest';
import { requestedRuns } from '../src/index.ts';

const agent_id = '01890000-0000-7000-8000-000000000000';

test('other requests are served while slow inputs are filled in', async () => {
  let turns = 0;
  const count = (): void => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  const inputs = Array.from({ length: 40 }, (_, index) => ({ custom_id: `${index}`, variables: {} }));
  const input = '{% for i in (1..2000) %}{{ i }}{% endfor %}';
  const runs = await requestedRuns({ template: { agent_id, input }, inputs }, null, () => undefined);
  clearImmediate(next);
  expect(runs).toHaveLength(40);
  expect(turns).toBeGreaterThan(5);
});
