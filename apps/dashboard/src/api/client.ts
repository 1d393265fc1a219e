import { createNightshift } from '@nightshift/client';

/** The API that serves this page; the cookie of the session is the key. */
export const nightshift = createNightshift({ url: window.location.origin, retriesMax: 1 });
