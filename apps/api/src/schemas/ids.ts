import type { WirePrefix } from '@nightshift/agent-core';
import { z } from 'zod';

/** The pattern of a uuid. */
export const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';

/** An id on the wire, `<prefix>-<uuid>`; parses to the uuid. */
export function wireId(prefix: WirePrefix) {
  return z
    .string()
    .regex(new RegExp(`^${prefix}-${UUID}$`), `must be ${prefix}-<uuid>, in lower case`)
    .transform((id) => id.slice(prefix.length + 1));
}

/** The only user in Letta's records. */
export const USER_ID = 'user-00000000-0000-4000-8000-000000000000';
