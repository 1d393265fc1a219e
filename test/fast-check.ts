import fc from 'fast-check';

/** The same cases in every run, so that what passes here passes elsewhere; `FC_SEED` asks for others. */
fc.configureGlobal({ seed: Number(process.env['FC_SEED'] ?? 1) });

export { fc };
