import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';
import manifest from '../../package.json' with { type: 'json' };

export default defineConfig({
  plugins: [react()],
  define: { NIGHTSHIFT_VERSION: JSON.stringify(manifest.version) },
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    // The content policy allows no inline script or data: font.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  // For `npx vite` beside a running API.
  server: { proxy: { '/v1': 'http://127.0.0.1:8283' } },
});
