// Replaces the examples of the document by what this instance serves. An example for which the instance has nothing
// stays as it is in the document.

async function get(path) {
  try {
    const response = await fetch(path);
    return response.ok ? await response.json() : undefined;
  } catch {
    return undefined;
  }
}

// status returns the networks and chains of the instance, from the console's stream.
function status() {
  return new Promise((resolve) => {
    const source = new EventSource("console/api/live");
    const end = (value) => {
      source.close();
      clearTimeout(timer);
      resolve(value);
    };
    const timer = setTimeout(end, 2000);
    source.addEventListener("status", (e) => end(JSON.parse(e.data)));
    source.onerror = () => end();
  });
}

// primary looks up values of the P- and X-Chain of a network.
async function primary(network) {
  const at = `v1/networks/${network}`;
  const [txs, conversions, vertices, validators] = await Promise.all([
    get(`${at}/blockchains/p-chain/transactions?pageSize=10`),
    get(`${at}/blockchains/p-chain/transactions?pageSize=1&txTypes=ConvertSubnetToL1Tx`),
    get(`${at}/blockchains/x-chain/vertices?pageSize=1`),
    get(`${at}/validators?pageSize=1`),
  ]);
  const tx = txs?.transactions.find((t) => t.emittedUtxos.length > 0);
  return {
    txHash: tx?.txHash,
    address: tx?.emittedUtxos[0].addresses[0],
    assetId: tx?.emittedUtxos[0].asset.assetId,
    conversion: conversions?.transactions[0]?.txHash,
    vertexHash: vertices?.vertices[0]?.vertexHash,
    nodeId: validators?.validators[0]?.nodeId,
  };
}

// evm looks up values of an EVM chain.
async function evm(chainId) {
  const at = `v1/chains/${chainId}`;
  const [txs, icm] = await Promise.all([get(`${at}/transactions?pageSize=100`), get("v1/icm/messages?pageSize=100")]);
  const tx = txs?.transactions[0];
  const sent = icm?.messages.find((m) => m.sourceEvmChainId === chainId);
  // A call goes to a contract. Which of them an indexed transaction deployed, and which hold NFTs, only asking tells.
  const called = [...new Set(txs?.transactions.filter((t) => t.method?.methodHash).map((t) => t.to.address))].slice(0, 25);
  const find = async (path) => {
    for (const address of called) {
      if (await get(`${at}${path(address)}`)) return address;
    }
  };
  const [contract, collection] = await Promise.all([
    find((address) => `/contracts/${address}/transactions:getDeployment`),
    find((address) => `/nfts/collections/${address}/tokens?pageSize=1`),
  ]);
  const tokens = collection && (await get(`${at}/nfts/collections/${collection}/tokens?pageSize=1`));
  return {
    chainId,
    tokenId: tokens?.tokens[0]?.tokenId,
    blockId: tx?.blockNumber,
    txHash: tx?.txHash,
    address: tx?.from.address,
    contract,
    collection,
    sent: sent?.sourceTransaction?.txHash,
    message: icm?.messages[0],
  };
}

// valueOf returns the example of a parameter of an operation.
function valueOf(path, name, known) {
  const { network, p, e } = known;
  if (name === "network") return network;
  if (path.startsWith("/v1/signatureAggregator/")) {
    return { txHash: path.includes("/blockchains/") ? e.sent : p.conversion, blockchainId: e.chainId, subnetId: "11111111111111111111111111111111LpoYY" }[name];
  }
  if (/^\/v[12]\/(chains|address|avg_tps)\//.test(path)) {
    const contract = path.includes("/contracts/") || path.endsWith("/addresses/{address}");
    const address = contract ? e.contract : path.includes("/nfts/") ? e.collection : e.address;
    return { chainId: e.chainId, blockId: e.blockId, txHash: e.txHash, tokenId: e.tokenId, address }[name];
  }
  if (path.startsWith("/v1/icm/")) return { messageId: e.message?.messageId, address: e.message?.from }[name];
  return {
    txHash: p.txHash,
    addresses: p.address,
    assetId: path.includes("/assets/") ? p.assetId : undefined,
    vertexHash: p.vertexHash,
    vertexHeight: "1",
    blockchainId: path.includes("/vertices") ? "x-chain" : undefined,
    nodeId: path.includes("{nodeId}") ? p.nodeId : undefined,
    nodeIds: p.nodeId,
  }[name];
}

// fill sets the examples of a document and returns it.
export async function fill(document) {
  const live = await status();
  const network = live?.networks.find((n) => n.ready)?.name ?? live?.networks[0]?.name;
  if (!network) return document;
  const chain = live.chains.find((c) => c.network === network && c.chain.startsWith("evm-"));
  const [p, e, made] = await Promise.all([
    primary(network),
    chain ? evm(chain.chain.slice("evm-".length)) : {},
    live.example ? get(`console/api/example?network=${network}`) : undefined,
  ]);
  for (const [path, item] of Object.entries(document.paths)) {
    for (const operation of Object.values(item)) {
      for (const list of [operation, operation.parameters ?? []]) {
        if (!Array.isArray(list)) continue;
        list.forEach((parameter, i) => {
          const declared = parameter.$ref ? document.components.parameters[parameter.$ref.split("/").pop()] : parameter;
          const value = valueOf(path, declared.name, { network, p, e });
          if (value !== undefined) list[i] = { ...declared, example: value };
          // An example of an optional parameter would restrict the request to what this instance may not have.
          else if (!declared.required) list[i] = { ...declared, example: undefined };
        });
      }
    }
  }
  if (made) {
    const body = (path, example) => (document.paths[path].post.requestBody.content["application/json"].example = example);
    body("/v1/signatureAggregator/{network}/aggregateSignatures", { message: made.message });
    body("/v1/signatureAggregator/{network}/aggregateSignatures:batch", { requests: [{ message: made.message }] });
    body("/aggregate-signatures", { message: made.message });
    const signed = (await get(`console/api/messages?network=${network}`))?.messages?.[0];
    const whole = signed && (await get(`console/api/messages/${signed.number}?network=${network}`));
    if (whole?.signedMessage) {
      body("/v1/signatureAggregator/{network}/verifySignedMessage", { signedMessage: whole.signedMessage, signingSubnetId: whole.signingSubnetId, pChainHeight: Number(whole.pChainHeight) });
    }
  }
  if (p.address) {
    for (const list of ["utxos", "lastActivityTimestampByAddresses"]) {
      const post = document.paths[`/v1/networks/{network}/blockchains/{blockchainId}/${list}`]?.post;
      if (post) post.requestBody.content["application/json"].example = { addresses: p.address };
    }
  }
  return document;
}
