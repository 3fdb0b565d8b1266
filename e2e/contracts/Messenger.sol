// SPDX-License-Identifier: UNLICENSED
pragma solidity ^0.8.20;

struct WarpMessage {
    bytes32 sourceChainID;
    address originSenderAddress;
    bytes payload;
}

// The Warp precompile as far as it is needed here.
interface IWarpMessenger {
    function sendWarpMessage(bytes calldata payload) external returns (bytes32 messageID);

    function getVerifiedWarpMessage(uint32 index) external view returns (WarpMessage calldata message, bool valid);
}

// Sends messages through the Warp precompile and tells what it reads from those
// that a transaction carries.
contract Messenger {
    IWarpMessenger constant WARP = IWarpMessenger(0x0200000000000000000000000000000000000005);

    event Verified(bool valid, bytes32 sourceChainID, address sender, bytes payload);

    function send(bytes calldata payload) external returns (bytes32) {
        return WARP.sendWarpMessage(payload);
    }

    function read(uint32 index) external {
        (WarpMessage memory message, bool valid) = WARP.getVerifiedWarpMessage(index);
        emit Verified(valid, message.sourceChainID, message.originSenderAddress, message.payload);
    }
}
