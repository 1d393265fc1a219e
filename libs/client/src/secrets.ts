import { dataOf, type Call } from './call.ts';
import * as sdk from './generated/sdk.gen.ts';

/** The operations of secrets. No answer has a value. */
export function secretsOf(on: Call) {
  const at = (name: string) => ({ ...on, path: { name } });
  return {
    /** Stores a secret, or replaces its value. */
    put: (name: string, value: string) => dataOf(sdk.putSecret({ ...at(name), body: { value } })),
    list: () => dataOf(sdk.listSecrets(on)),
    delete: (name: string) => dataOf(sdk.deleteSecret(at(name))),
  };
}
