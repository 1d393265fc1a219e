import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { keepKeyFile, type KeptKey } from '@nightshift/services';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 43 characters of base 62 hold 256 bits. */
const KEY_LENGTH = 43;

/** Reads the key in `<dataDir>/api-key`, or creates it, readable by its owner only. Concurrent first starts agree on a key. */
export function keepApiKey(dataDir: string): Promise<KeptKey> {
  return keepKeyFile({
    path: join(dataDir, 'api-key'),
    make: () =>
      `ns_${Array.from({ length: KEY_LENGTH }, () => BASE62.charAt(randomInt(BASE62.length))).join('')}`,
    // Same rule as for NIGHTSHIFT_API_KEY: a header must be able to carry it.
    isKey: (text) => /^[!-~]{16,}$/.test(text),
    refusal: 'holds no API key: delete it; the next start creates a new key.',
  });
}
