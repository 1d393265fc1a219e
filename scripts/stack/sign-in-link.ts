import type { Stack } from './stack.ts';

/** Makes the address of the dashboard that signs a browser in once, within ten minutes. */
export async function createSignInLink({
  apiUrl,
  apiKey,
}: Pick<Stack, 'apiUrl' | 'apiKey'>): Promise<string> {
  const response = await fetch(`${apiUrl}/v1/session/links`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}` },
  });
  const { token } = (await response.json()) as { readonly token: string };
  return `${apiUrl}/#token=${token}`;
}
