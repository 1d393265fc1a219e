import { expect, test } from 'vitest';
import { withAlerts } from '../../src/wire/anthropic/alerts.ts';

test('a system message becomes a system alert of the user, and all else stays unchanged', () => {
  const user = '{"role":"user","content":[ {"type":"text","text":"{\\"role\\":\\"system\\""} ]}';
  const image = { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } };
  const alert = { role: 'system', content: [{ type: 'text', text: 'It is\u0000 "late".' }, image] };
  const text = '{"type":"system_alert","message":"It is\\u0000 \\"late\\"."}';
  expect(withAlerts(`[${user},${JSON.stringify(alert)},${user}]`)).toBe(
    `[${user},${JSON.stringify({ role: 'user', content: [{ type: 'text', text }, image] })},${user}]`,
  );
});
